"""Which line of a run is its failure, and in which stage it stands: by messages, frames, milestones, words."""
