#version 330 core
// What `light.py` and `shade.py` say, in GLSL: linear light and alpha of one sample. Names in capitals are
// the constants of `light.py`.

struct Material {
    vec4 base_color_factor;
    vec3 emissive_factor;
    float metallic_factor;
    float roughness_factor;
    sampler2D base_color_texture;
    sampler2D metallic_roughness_texture;
    sampler2D normal_texture;
    sampler2D occlusion_texture;
    sampler2D emissive_texture;
};

uniform Material material;
uniform vec3 cam_pos;
uniform vec3 key;  // towards the lamps
uniform vec3 fill;
uniform bool unlit;
uniform float cutoff;  // below it there is a hole
uniform mat3 base_transform;  // of texture coordinates; the last number says which
uniform mat3 metal_rough_transform;
uniform mat3 normal_transform;
uniform mat3 occlusion_transform;
uniform mat3 emissive_transform;

in vec3 at;
in vec3 leaning;
in vec2 uv;
in vec2 uv1;
in vec4 own_color;

out vec4 frag_color;

// So many samples beside this one; bilinear inside the mip level whose texels are about as large as a pixel,
// which is two samples wide.
vec4 look_up_beside(sampler2D image, mat3 transform, vec2 samples)
{
    vec2 place = (transform * vec3(transform[2][2] > 0.5 ? uv1 : uv, 1.0)).xy;
    vec2 right = dFdx(place), up = dFdy(place);
    vec2 size = vec2(textureSize(image, 0));
    float texels = abs(right.x * up.y - up.x * right.y) * size.x * size.y;
    float level = 0.5 * log2(max(texels, 1e-12)) + 1.0;
    return textureLod(image, place + samples.x * right + samples.y * up, level);
}

// In the middle of the pixel: a face has one colour there.
vec4 look_up(sampler2D image, mat3 transform)
{
    return look_up_beside(image, transform, 0.5 - mod(floor(gl_FragCoord.xy), 2.0));
}

// The normal leant over by the normal map; the map's axes follow the texture coordinates.
vec3 bumped(vec3 normal)
{
#ifdef HAS_NORMAL_TEX
    vec2 right = dFdx(uv), up = dFdy(uv);
    float side = sign(right.x * up.y - right.y * up.x) * (gl_FrontFacing ? 1.0 : -1.0);
    vec3 along = (dFdx(at) * up.y - dFdy(at) * right.y) * sign(right.x * up.y - right.y * up.x);
    along -= normal * dot(normal, along);
    along /= max(length(along), SHORTEST);
    vec3 across = -cross(normal, along) * side;
    vec3 lean = 2.0 * look_up(material.normal_texture, normal_transform).rgb - 1.0;
    return normalize(along * lean.x + across * lean.y + normal * max(lean.z, FLATTEST_BUMP));
#else
    return normal;
#endif
}

// The normal, turned to the side we see and never away from the eye.
vec3 seen_normal(vec3 to_eye)
{
    vec3 flat_normal = cross(dFdx(at), dFdy(at));
    vec3 normal = bumped(leaning / max(length(leaning), SHORTEST));
    normal *= dot(normal, flat_normal) * dot(flat_normal, to_eye) < 0.0 ? -1.0 : 1.0;
    return normalize(normal - min(dot(normal, to_eye), 0.0) * to_eye);
}

float highlight(vec3 normal, vec3 to_eye, float roughness)
{
    float squared = max(roughness, SMOOTHEST) * max(roughness, SMOOTHEST);
    float shininess = 2.0 / (squared * squared) - 2.0;
    float gleam = pow(max(dot(normal, normalize(key + to_eye)), 0.0), min(shininess, SHININESS_LIMIT));
    return min((shininess + 8.0) / GLEAM_SPREAD * gleam * max(dot(normal, key), 0.0), GLEAM_LIMIT);
}

vec3 lit(vec3 color)
{
    float metallic = material.metallic_factor, roughness = material.roughness_factor, occlusion = 1.0;
    vec3 glow = material.emissive_factor;
#ifdef HAS_METALLIC_ROUGHNESS_TEX
    vec2 texel = look_up(material.metallic_roughness_texture, metal_rough_transform).gb;
    roughness *= texel.x;
    metallic *= texel.y;
#endif
#ifdef HAS_OCCLUSION_TEX
    occlusion = look_up(material.occlusion_texture, occlusion_transform).r;
#endif
#ifdef HAS_EMISSIVE_TEX
    glow *= look_up(material.emissive_texture, emissive_transform).rgb;
#endif
    vec3 to_eye = normalize(cam_pos - at), normal = seen_normal(to_eye);
    float sky = (SKY_LEVEL + SKY_RISE * normal.y) * occlusion;
    float diffuse = sky + KEY_LEVEL * max(dot(normal, key), 0.0) + FILL_LEVEL * max(dot(normal, fill), 0.0);
    float height = 2.0 * max(dot(normal, to_eye), 0.0) * normal.y - to_eye.y;
    float upward = clamp(0.5 * height + 0.5, 0.0, 1.0);
    float surroundings = (MIRROR_LEVEL + MIRROR_RISE * pow(upward, 3.0 - 2.0 * roughness)) * occlusion;
    float mirrored = surroundings + GLEAM_LEVEL * highlight(normal, to_eye, roughness);
    vec3 albedo = color * WHITEST, metal = albedo * metallic;
    return (albedo - METAL_LOSS * metal) * diffuse + (metal + BARE_REFLECTANCE * (1.0 - metallic)) * mirrored + glow;
}

void main()
{
    vec4 color = material.base_color_factor * own_color;
    float here = color.a;
#ifdef HAS_BASE_COLOR_TEX
    color *= look_up(material.base_color_texture, base_transform);
    here *= look_up_beside(material.base_color_texture, base_transform, vec2(0.0)).a;
#endif
    frag_color = vec4(unlit ? color.rgb : lit(color.rgb), color.a);
    if (here < cutoff) discard;  // last, since a hole's neighbours need its derivatives
}
