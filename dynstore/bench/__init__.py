"""What ``dynstore bench`` and the demo measure with: streams cut into steps, suites, checks, result schema, reports."""
