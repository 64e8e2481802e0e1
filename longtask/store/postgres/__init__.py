"""The contract on PostgreSQL: `store.PostgresStore`; the rest of the folder is how it talks to the server."""
