"""What would help: every change that a person can make, planned once, the same for every command."""
