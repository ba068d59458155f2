"""Every operation of the service, and the scope of the key that it needs.

Operations of a collection are here in their short form; they are described in the one that names it.
"""

SCOPES = {
    ("/v1/search", "post"): "read",
    ("/v1/search/form", "post"): "read",
    ("/v1/search/batch", "post"): "read",
    ("/v1/facets", "post"): "read",
    ("/v1/embeddings", "post"): "read",
    ("/v1/traverse", "post"): "read",
    ("/v1/explain", "post"): "read",
    ("/v1/rerank", "post"): "read",
    ("/v1/classify", "post"): "read",
    ("/v1/items/tags:propose", "post"): "read",
    ("/v1/items/tags:accept", "post"): "write",
    ("/v1/items/tags:remove", "post"): "write",
    ("/v1/models", "get"): "read",
    ("/v1/models/{name}", "get"): "read",
    ("/v1/info", "get"): "read",
    ("/v1/folder", "get"): "read",
    ("/v1/feedback", "post"): "write",
    ("/v1/feedback", "get"): "write",
    ("/v1/feedback/{feedback_id}", "delete"): "write",
    ("/v1/feedback/{feedback_id}/files/{index}", "get"): "write",
    ("/v1/items", "post"): "write",
    ("/v1/items/form", "post"): "write",
    ("/v1/items/delete", "post"): "write",
    ("/v1/items/scroll", "post"): "read",
    ("/v1/items/count", "post"): "read",
    ("/v1/items/{item_id}/similar", "post"): "read",
    ("/v1/items/{item_id}/views/{index}", "get"): "read",
    ("/v1/items/{item_id}/photos/{index}", "get"): "read",
    ("/v1/items/{item_id}/thumbnail", "get"): "read",
    ("/v1/items/{item_id}/model", "get"): "read",
    ("/v1/archive", "get"): "read",
    ("/v1/items/{item_id}", "get"): "read",
    ("/v1/items/{item_id}", "put"): "write",
    ("/v1/items/{item_id}", "patch"): "write",
    ("/v1/items/{item_id}", "delete"): "write",
    ("/v1/snapshots", "get"): "admin",
    ("/v1/snapshots", "post"): "admin",
    ("/v1/snapshots/{name}", "get"): "admin",
    ("/v1/snapshots/{name}", "delete"): "admin",
    ("/v1/snapshots/{name}/restore", "post"): "admin",
    ("/v1/collections", "get"): "read",
    ("/v1/collections", "post"): "admin",
    ("/v1/collections/{name}", "get"): "read",
    ("/v1/collections/{name}", "delete"): "admin",
    ("/v1/items/bulk", "post"): "write",
    ("/v1/collections/{name}/rebuild", "post"): "admin",
    ("/v1/collections/{name}/reindex", "post"): "admin",
    ("/v1/bundles/reload", "post"): "admin",
    ("/v1/bundles", "get"): "read",
    ("/v1/items/{item_id}/files/{index}", "get"): "read",
    ("/v1/jobs", "get"): "read",
    ("/v1/jobs/{job_id}", "get"): "read",
    ("/v1/jobs/{job_id}/events", "get"): "read",
    ("/v1/jobs/{job_id}/cancel", "post"): "write",
    ("/v1/aliases", "get"): "read",
    ("/v1/aliases/{alias}", "put"): "admin",
    ("/v1/aliases/{alias}", "delete"): "admin",
    ("/metrics", "get"): "read",
    ("/healthz", "get"): None,
    ("/readyz", "get"): None,
}
OF_THE_SERVICE = ("/v1/collections", "/v1/bundles", "/v1/jobs", "/v1/aliases")
OF_A_COLLECTION = {
    (path, method)
    for path, method in SCOPES
    if path.startswith("/v1/") and not path.startswith(OF_THE_SERVICE)
}
NAMED = "/v1/collections/{collection}/"
