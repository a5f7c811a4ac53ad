"""What every text passes: secrets and odd characters taken out, patterns compiled late, small tables."""
