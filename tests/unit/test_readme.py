"""
The description on the package index.
"""

from __future__ import annotations

from readme import absolute_links, project_urls, repository

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


def test_the_links_of_the_metadata_lead_to_the_repository_that_builds() -> None:
    """
    Its workflow names itself; a checkout has no address.
    """
    named = {
        "GITHUB_SERVER_URL": "https://code.example",
        "GITHUB_REPOSITORY": "a/pystore",
    }

    urls = project_urls(repository(named), "1.2")
    assert "https://code.example/a/pystore" == urls["Source"]
    assert f"{urls['Source']}/blob/v1.2/CHANGELOG.md" == urls["Changelog"]
    assert {} == project_urls(repository({}), "1.2")
