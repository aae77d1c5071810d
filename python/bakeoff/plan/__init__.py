"""What will run: cells, epochs, orders, seeds, minutes. Pure functions of a study."""
