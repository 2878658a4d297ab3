"""What the commands of `paraboloid` do; what can be typed stands in `paraboloid_command`."""
