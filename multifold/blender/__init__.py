"""An add-on for Blender, and the command that installs it. Blender has the add-on as a package of its own."""

bl_info = {
    "name": "Multifold search",
    "description": "Search a Multifold service in the sidebar, and drop what is found into the scene",
    "author": "The Multifold founders",
    "version": (0, 1, 0),
    "blender": (3, 4, 0),
    "location": "3D View > Sidebar > Multifold",
    "category": "Import-Export",
}


def register() -> None:
    """Called by Blender, which alone can import the panel."""
    from .panel import register_panel

    register_panel()


def unregister() -> None:
    """Called by Blender when the add-on is switched off."""
    from .panel import unregister_panel

    unregister_panel()
