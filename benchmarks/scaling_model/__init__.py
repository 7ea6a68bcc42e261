"""What updates and algorithms of a sharded graph cost on so many ranks: a model, beside measurements."""
