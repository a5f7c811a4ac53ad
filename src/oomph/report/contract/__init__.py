"""The shapes of the JSON. Additions are fine, renames are not."""
