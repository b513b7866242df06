"""The client side of the gateway: sessions, views, calls, notifications."""
