"""The commands of this package: data, features, train, eval, explain, traverse, export, equip, improve."""
