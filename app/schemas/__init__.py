"""What goes over the wire, as `/v1` promises it: one file a resource."""
