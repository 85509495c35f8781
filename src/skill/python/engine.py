"""The name under which bodies look for the engine's failure."""

from semif_agent.decisions import EngineUnavailable

__all__ = ["EngineUnavailable"]
