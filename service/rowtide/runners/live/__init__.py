"""The live runner: plan -> flow."""
