"""A function and an aggregate that return what they get."""


def upper(x: str) -> str:
    return x.upper()


def same(x: str) -> str:
    return x


class Last:
    def create(self) -> str:
        return ""

    def add(self, state: str, x: str) -> str:
        return x

    def result(self, state: str) -> str:
        return state
