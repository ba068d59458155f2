"""The commands of this room: data, features, train, eval, explain, traverse, export, equip, improve."""
