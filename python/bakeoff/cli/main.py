"""(being written)"""
def main() -> None:
    print("hi")
