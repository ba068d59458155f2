"""The renderer that draws with OpenGL, by pyrender and our shaders."""
