raise ValueError("first\nsecond \x1b[2J")
