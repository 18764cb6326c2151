"""Settings as frozen values: from a TOML file, environment variables and defaults."""
