"""The bare LEON3: supervisor mode, its devices, and a machine of both."""
