"""placeholder"""
from bakeoff.errors import ServerError
from bakeoff.servers.fetch import Progress
from bakeoff.servers.model import Installation


def installation(image: str, progress: Progress) -> Installation:
    """Installation of an image."""
    raise ServerError("no engine")
