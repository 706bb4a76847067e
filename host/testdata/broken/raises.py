PRICES = {"tea": 3}
PRICES["mug"]
