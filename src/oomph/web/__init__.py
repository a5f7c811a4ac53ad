"""`oomph ui`: one local page that shows a plan as it changes and explains a pasted log."""
