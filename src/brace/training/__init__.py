"""What makes weights: the embedded planner's data and training."""
