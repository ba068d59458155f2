"""Pictures as arrays: sRGB and linear light, backgrounds, and textures with their mip levels."""
