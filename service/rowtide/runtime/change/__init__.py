"""A changed pipeline takes over: plan and apply."""
