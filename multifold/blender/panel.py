"""The add-on inside Blender: a search box in the sidebar, thumbnails, and the hit in the scene.

Only Blender can import this module.
"""

import tempfile
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bpy
import bpy.utils.previews

from .connection import AddonConnection, AddonError, FoundModel, FoundModels

QUERY = "multifold_query"  # of the window manager: what stands in the search box
LOOK = 0.1  # seconds between two looks at a search
COLUMNS = 2
ICON = 6.0


@dataclass
class PanelState:
    """What the panel shows, and the search that is under way with the folder of its pictures."""

    models: tuple[FoundModel, ...] = ()
    message: str = ""
    previews: Any = None
    folder: "tempfile.TemporaryDirectory[str] | None" = None
    search: "tuple[Future[FoundModels], tempfile.TemporaryDirectory[str]] | None" = None
    worker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def begin(self, connection: AddonConnection, text: str) -> None:
        """Search off Blender's own thread, which draws. An earlier search is forgotten."""
        folder = tempfile.TemporaryDirectory(prefix="multifold-")
        self.message = "Searching …"
        self.search = self.worker.submit(connection.find_models, text, Path(folder.name)), folder

    def is_searching(self) -> bool:
        return self.search is not None and not self.search[0].done()

    def end(self) -> None:
        """Take over what the search has found."""
        if self.search is None:
            return
        (search, folder), self.search = self.search, None
        try:
            found = search.result()
        except AddonError as error:
            self.message = str(error)
            return
        self.message = "" if found.matches_well else "Nothing matches well"
        if not found.models:
            self.message = "No model is found"
        self.previews.clear()
        self.models = found.models
        self.folder = folder
        for model in found.models:
            if model.picture is not None:
                self.previews.load(model.id, str(model.picture), "IMAGE")


state = PanelState()


class MultifoldPreferences(bpy.types.AddonPreferences):
    """Where the service is."""

    bl_idname = __package__
    url: bpy.props.StringProperty(name="Service", default="http://127.0.0.1:8000")  # type: ignore[valid-type]
    key: bpy.props.StringProperty(name="Key", subtype="PASSWORD")  # type: ignore[valid-type]
    collection: bpy.props.StringProperty(name="Collection")  # type: ignore[valid-type]

    def draw(self, _context: Any) -> None:  # noqa: ANN401
        for name in ("url", "key", "collection"):
            self.layout.prop(self, name)


def connection_of(context: Any) -> AddonConnection:  # noqa: ANN401
    """The service that the preferences name."""
    chosen = context.preferences.addons[__package__].preferences
    return AddonConnection(chosen.url, chosen.key, chosen.collection)


class SearchOperator(bpy.types.Operator):
    """Search the service with the words in the box"""

    bl_idname = "multifold.search"
    bl_label = "Search"

    def execute(self, context: Any) -> set[str]:  # noqa: ANN401
        text = getattr(context.window_manager, QUERY).strip()
        if not text:
            return {"CANCELLED"}
        state.begin(connection_of(context), text)
        if bpy.app.background:  # no timers run there
            state.end()
        elif not bpy.app.timers.is_registered(_look):
            bpy.app.timers.register(_look)
        return {"FINISHED"}


def _search_again(_self: Any, _context: Any) -> None:  # noqa: ANN401
    """Called when the box has other words."""
    bpy.ops.multifold.search()


def _look() -> float | None:
    """Draw the panel again once the search is over; Blender calls this until then."""
    if state.is_searching():
        return LOOK
    state.end()
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            area.tag_redraw()
    return None


class DropOperator(bpy.types.Operator):
    """Import this model and place it at the 3D cursor"""

    bl_idname = "multifold.drop"
    bl_label = "Drop into the scene"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012 (as Blender wants it)
    item: bpy.props.StringProperty()  # type: ignore[valid-type]

    def execute(self, context: Any) -> set[str]:  # noqa: ANN401
        model = next((one for one in state.models if one.id == self.item), None)
        if model is None:
            self.report({"ERROR"}, f"{self.item} is not among what was found")
            return {"CANCELLED"}
        try:
            with tempfile.TemporaryDirectory(prefix="multifold-") as folder:
                files = connection_of(context).fetch_model(model, Path(folder))
                objects = import_first(context, files)
        except AddonError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        for one in objects:
            if one.parent is None:
                one.location += context.scene.cursor.location
                one.name = model.title
                one["multifold_id"] = model.id
        return {"FINISHED"}


def import_first(context: Any, files: Iterable[Path]) -> list[Any]:  # noqa: ANN401
    """The objects of the first file that Blender can read."""
    _mend_numpy()
    before = set(context.scene.objects)
    trouble = ""
    for path in files:
        try:
            bpy.ops.import_scene.gltf(filepath=str(path))
        except RuntimeError as error:
            trouble = str(error).strip().splitlines()[-1]
            continue
        return [one for one in context.scene.objects if one not in before]
    raise AddonError(f"Blender cannot read the model: {trouble}")


def _mend_numpy() -> None:
    """Debian 12 has Blender 3.4 beside a numpy without the `bool` that its importer of glTF asks for."""
    try:
        import numpy
    except ImportError as error:
        raise AddonError("Blender reads models with numpy: install python3-numpy") from error
    if "bool" not in vars(numpy):
        numpy.bool = bool  # type: ignore[misc, assignment]


class SearchPanel(bpy.types.Panel):
    """The sidebar of the 3D view."""

    bl_idname = "MULTIFOLD_PT_search"
    bl_label = "Multifold"
    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = "Multifold"

    def draw(self, context: Any) -> None:  # noqa: ANN401
        row = self.layout.row(align=True)
        row.prop(context.window_manager, QUERY, text="", icon="VIEWZOOM")
        row.operator(SearchOperator.bl_idname, text="", icon="PLAY")
        if state.message:
            self.layout.label(text=state.message)
        grid = self.layout.grid_flow(row_major=True, columns=COLUMNS, even_columns=True)
        for model in state.models:
            cell = grid.column(align=True)
            if model.id in state.previews:
                cell.template_icon(state.previews[model.id].icon_id, scale=ICON)
            cell.operator(DropOperator.bl_idname, text=model.label).item = model.id


CLASSES = (MultifoldPreferences, SearchOperator, DropOperator, SearchPanel)


def register_panel() -> None:
    for one in CLASSES:
        bpy.utils.register_class(one)
    box = bpy.props.StringProperty(
        name="Search",
        description="What are you looking for?",
        update=_search_again,
    )
    setattr(bpy.types.WindowManager, QUERY, box)
    state.previews = bpy.utils.previews.new()


def unregister_panel() -> None:
    if bpy.app.timers.is_registered(_look):
        bpy.app.timers.unregister(_look)
    bpy.utils.previews.remove(state.previews)
    delattr(bpy.types.WindowManager, QUERY)
    for one in reversed(CLASSES):
        bpy.utils.unregister_class(one)
