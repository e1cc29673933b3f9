"""The emulated processor, its memory and its register windows."""
