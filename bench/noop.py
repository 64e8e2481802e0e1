"""What a no-op step does."""


def nothing() -> None:
    return
