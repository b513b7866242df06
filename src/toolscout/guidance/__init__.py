"""What goes with tools so that they are used well: rules by category, and skills."""
