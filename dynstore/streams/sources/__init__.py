"""Where rows come from: objects in memory, growing files, and servers."""
