"""The figures that the papers print, and tables of ours beside them."""
