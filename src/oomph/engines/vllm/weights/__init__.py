"""The weights of one rank: what its layers create, what stays after loading."""
