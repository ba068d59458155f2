#version 330 core
// Corners of faces to the screen. The names are those that pyrender fills in.

layout(location = 0) in vec3 position;
layout(location = NORMAL_LOC) in vec3 normal;
#ifdef TEXCOORD_0_LOC
layout(location = TEXCOORD_0_LOC) in vec2 texcoord_0;
#endif
#ifdef TEXCOORD_1_LOC
layout(location = TEXCOORD_1_LOC) in vec2 texcoord_1;
#endif
#ifdef COLOR_0_LOC
layout(location = COLOR_0_LOC) in vec4 color_0;
#endif

uniform mat4 V;
uniform mat4 P;

out vec3 at;
out vec3 leaning;
out vec2 uv;
out vec2 uv1;
out vec4 own_color;

void main()
{
    gl_Position = P * V * vec4(position, 1.0);
    at = position;
    leaning = normal;
    uv = uv1 = vec2(0.0);
    own_color = vec4(1.0);
#ifdef TEXCOORD_0_LOC
    uv = texcoord_0;
#endif
#ifdef TEXCOORD_1_LOC
    uv1 = texcoord_1;
#endif
#ifdef COLOR_0_LOC
    own_color = color_0;
#endif
}
