"""The JSON beside a figure's files: what the page says of it, and the numbers behind it."""

from typing import Annotated, Any, TypedDict

from msgspec import Meta


class Description(TypedDict):
    """The content of OUTPUT.json."""

    title: str
    caption: str
    alt: str  # for those who cannot see the figure
    inches: Annotated[float, Meta(gt=0)]  # its width
    data: dict[str, Any]
