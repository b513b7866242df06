"""The pages of the console, one module each: their routes and what they show."""
