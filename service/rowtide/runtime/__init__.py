"""The running service: pipeline, commit, recovery, retries, replay."""
