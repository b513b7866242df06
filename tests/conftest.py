"""What every test relies on."""

from hypothesis import settings

# A busy machine is no failure: properties are judged by what they find, never by how long it took.
settings.register_profile("toolscout", deadline=None)
settings.load_profile("toolscout")
