"""On both databases."""

from tests.api.conftest import database as database
