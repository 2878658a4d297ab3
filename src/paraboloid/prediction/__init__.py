"""What a distribution over weights says about outputs: linearised, without a Jacobian, and by many weights at once."""
