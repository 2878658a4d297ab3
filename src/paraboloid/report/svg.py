"""From matplotlib's SVG to one that lives inside a page.

- coordinates are rounded to a hundredth of a unit, and what only another program would read is dropped
- placeholders become CSS variables, so that the page's theme decides the colours
- ids get the panel's prefix, so that two drawings in one page do not steal each other's clip paths
- groups that matplotlib was told to call ``series-3`` become ``class="series" data-series="3"``
"""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from paraboloid.report import canvas, palette

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
MANY = 300  # markers; beyond that they are one path of dots, which takes a sixth of the bytes
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_FONT = re.compile(r"font-family:[^;]*;?\s*")
_UNTURNED = re.compile(r"rotate\(-?0 [^)]*\)")
_COMMAND = re.compile(r"\s*([MLHVCQSTAZ])\s*", re.IGNORECASE)
_THEME = {
    canvas.INK: "var(--ink)",
    canvas.SOFT: "var(--axis)",
    canvas.GRID: "var(--grid)",
}


def cleaned(text: str, prefix: str, label: str, has_keys: bool = False) -> str:
    """The drawing as an inline element; `label` is what a screen reader says instead of it."""
    # matplotlib wrote this text a moment ago: there is no foreign XML in it but escaped characters
    root = ElementTree.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if _tag(child) in ("metadata", "style") or _is_background(child):
                parent.remove(child)
    for element in root.iter():
        _clean(element, prefix)
    for group in list(root.iter(f"{{{SVG}}}g")):
        _join_markers(group)
    _join_keys(root)
    _flatten(root)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("class", "panel")
    root.set("role", "group" if has_keys else "img")
    root.set("aria-label", label)
    ElementTree.register_namespace("", SVG)
    written = ElementTree.tostring(root, encoding="unicode")
    return re.sub(r">\s+<", "><", written).replace(" />", "/>")


def _clean(element: Element, prefix: str) -> None:
    for key, value in list(element.attrib.items()):
        value = value.replace("url(#", f"url(#{prefix}-")
        for placeholder, variable in _theme().items():
            value = value.replace(placeholder, variable)
        if key == "id":
            value = _take_id(element, value, prefix)
        elif key == f"{{{XLINK}}}href":
            del element.attrib[key]
            key, value = "href", value.replace("#", f"#{prefix}-", 1) if value.startswith("#") else value
        elif key == "d":
            value = _COMMAND.sub(r"\1", _NUMBER.sub(_rounded, value)).strip()
        elif key in ("style", "transform", "x", "y", "width", "height", "points"):
            value = _NUMBER.sub(_rounded, _UNTURNED.sub("", _FONT.sub("", value)))
        element.attrib.pop(key, None)
        if value:
            element.set(key, value.replace("; ", ";").replace(": ", ":") if key == "style" else value)


def _take_id(element: Element, value: str, prefix: str) -> str:
    """Our own names become classes; the rest stay ids if something can refer to them."""
    del element.attrib["id"]
    kind, _, index = value.partition("-")
    if kind in ("series", "key", "dash"):
        element.set("class", {"series": "series", "key": "series key", "dash": "dash"}[kind])
        element.set("data-series", index)
        if kind == "key":
            element.attrib.update({"role": "button", "tabindex": "0", "aria-pressed": "true"})
        return ""
    if kind == "level":
        element.set("class", "level")
        return ""
    return f"{prefix}-{value}" if _tag(element) != "g" and _tag(element) != "svg" else ""


def _join_markers(group: Element) -> None:
    """Thousands of `use` elements become the dots of one path."""
    uses = [child for child in group if _tag(child) == "use"]
    if len(uses) <= MANY:
        for use in uses[1:]:
            if use.get("style") == uses[0].get("style"):
                del use.attrib["style"]
        if uses and (style := uses[0].attrib.pop("style", "")):
            group.set("style", style)
        return
    dots = "".join(f"M{use.get('x')} {use.get('y')}h0" for use in uses)
    colour = re.search(r"fill:([^;]+)", uses[0].get("style", ""))
    for child in list(group):
        group.remove(child)
    style = f"fill:none;stroke:{colour[1] if colour else 'currentColor'};stroke-width:3;stroke-linecap:round"
    ElementTree.SubElement(group, f"{{{SVG}}}path", {"d": dots, "style": style})


def _join_keys(root: Element) -> None:
    """The dash beside a name belongs to the name's button."""
    buttons = {group.get("data-series"): group for group in root.iter() if group.get("class") == "series key"}
    for parent in list(root.iter()):
        for group in [child for child in parent if child.get("class") == "dash"]:
            parent.remove(group)
            buttons[group.get("data-series")][:0] = list(group)


def _flatten(parent: Element) -> None:
    """Groups that say nothing give way to what they hold."""
    kept: list[Element] = []
    for child in parent:
        _flatten(child)
        if _tag(child) in ("g", "defs") and not child.attrib and (_tag(child) == "g" or len(child) == 0):
            kept += list(child)
        else:
            kept.append(child)
    parent[:] = kept


def _is_background(element: Element) -> bool:
    return element.get("id") in ("patch_1", "patch_2") and "fill: none" in _first_style(element)


def _first_style(group: Element) -> str:
    return group[0].get("style", "") if len(group) else ""


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _theme() -> dict[str, str]:
    return _THEME | {palette.placeholder(slot): f"var(--s{slot})" for slot in range(len(palette.COLOURS))}


def _rounded(match: re.Match[str]) -> str:
    text = f"{float(match[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
