"""What ``dynstore bench`` prints and writes: figures on the console, pages, charts."""
