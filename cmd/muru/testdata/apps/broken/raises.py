PRICES = {"cup": 4}
PRICE = PRICES["mug"]
