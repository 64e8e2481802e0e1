from longtask.client.async_client import AsyncClient as AsyncClient
from longtask.client.client import Client as Client

__version__: str
