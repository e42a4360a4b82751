"""
The description on the package index.
"""

from __future__ import annotations

from readme import absolute_links

SOURCE = "https://code.example/pystore"
TEXT = (
    "[a](docs/spark.md#columns), [c](https://c.example/), [d](#d), "
    "[mail](mailto:e@f.example)"
)


def test_links_into_the_project_show_the_pages_of_the_release() -> None:
    """
    All other links stay unchanged.
    """
    absolute = f"[a]({SOURCE}/blob/v1.2/docs/spark.md#columns)"

    assert TEXT.replace("[a](docs/spark.md#columns)", absolute) == absolute_links(
        TEXT, SOURCE, "1.2"
    )


def test_without_an_address_the_text_stays_as_it_is() -> None:
    """
    A build from a checkout needs no repository.
    """
    assert TEXT == absolute_links(TEXT, None, "1.2")
