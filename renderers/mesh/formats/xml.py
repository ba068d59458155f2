"""XML that nobody vouches for: no document types, hence no entities to expand and nothing to fetch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from renderers.contracts import MeshError

_DEEPEST = 200
Attributes = dict[str, str]


@dataclass(eq=False)
class XmlElement:
    """One element, by its name without a namespace."""

    name: str
    attributes: Attributes
    children: list["XmlElement"] = field(default_factory=list)
    text: str = ""

    def child(self, *path: str) -> "XmlElement | None":
        """The first descendant along a path of names."""
        element: XmlElement | None = self
        for name in path:
            element = None if element is None else next(iter(element.all(name)), None)
        return element

    def all(self, *names: str) -> list["XmlElement"]:
        """The children with one of these names."""
        return [one for one in self.children if one.name in names]

    def descendants(self) -> Iterator["XmlElement"]:
        """This element and all within it, in the order of the document; as deep as the reader allows."""
        yield self
        for child in self.children:
            yield from child.descendants()


def walk_xml(
    data: bytes,
    start: Callable[[str, Attributes], None],
    end: Callable[[str], None] | None = None,
    text: Callable[[str], None] | None = None,
) -> None:
    """Call back for every element in order; names come without their namespace."""
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler = lambda name, attributes: start(_local(name), attributes)
    if end is not None:
        parser.EndElementHandler = lambda name: end(_local(name))
    if text is not None:
        parser.CharacterDataHandler = text
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise MeshError(f"the XML in the file is damaged: {error}. Export it anew.") from error


def parse_xml(data: bytes) -> XmlElement:
    """The whole document as a tree."""
    top = XmlElement("", {})
    open_elements = [top]
    words = list[str]()

    def start(name: str, attributes: Attributes) -> None:
        if len(open_elements) > _DEEPEST:
            raise MeshError("the XML in the file is nested too deep to be a mesh. Export it anew.")
        words.clear()
        element = XmlElement(name, attributes)
        open_elements[-1].children.append(element)
        open_elements.append(element)

    def end(_: str) -> None:
        open_elements.pop().text = "".join(words).strip()
        words.clear()

    walk_xml(data, start, end, words.append)
    return top.children[0]


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _refuse_doctype(*_: object) -> None:
    raise MeshError("the XML in the file declares a document type, which is not read. Export it anew.")
