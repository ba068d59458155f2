// Swagger UI over the description of this service.
globalThis.SwaggerUIBundle({ url: "/openapi.json", dom_id: "#api", deepLinking: true, docExpansion: "none", validatorUrl: null });
