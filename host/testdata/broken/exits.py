import os

print("giving up")
os._exit(7)
