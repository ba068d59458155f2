"""Captions of our furniture in other languages, word by word: for measuring, not for reading.

Words that the table lacks stay as they are, as names and new words do in any language.
"""

from typing import Final

LANGUAGES: Final = ("german", "czech", "spanish")
_TABLE = """
a ein jeden un|and und a y|has hat má tiene|legs beine nohy patas|in in v en|is ist je es|with mit s con
that das který que|this dies toto esto|on auf na sobre|the die ta la|of von z de|blue blau modrý azul
green grün zelený verde|pink rosa růžový rosado|white weiß bílý blanco|black schwarz černý negro
yellow gelb žlutý amarillo|brown braun hnědý marrón|orange orange oranžový naranja|an eine jedna una
table tisch stůl mesa|red rot červený rojo|back lehne opěradlo respaldo|picture bild obrázek foto
find finde najdi encuentra|me mir mi me|it es to eso|i ich já yo|am bin jsem soy|looking suche hledám busco
for nach pro para|there dort tam allí|seat sitz sedák asiento|beige beige béžový beis
plastic plastik plast plástico|wood holz dřevo madera|side seite strana lado|one eins jeden uno
teal petrol petrolejový cerceta|top platte deska tablero|cream creme krémový crema|foot fuß noha pie
mirror spiegel zrcadlo espejo|right rechts vpravo derecha|chair stuhl židle silla|bench bank lavice banco
drawers schubladen zásuvky cajones|gray grau šedý gris|grey grau šedý gris
turquoise türkis tyrkysový turquesa|purple lila fialový morado|rear hinten vzadu trasero
cone kegel kužel cono|violet violett fialkový violeta|drawer schublade zásuvka cajón|bed bett postel cama
lamp lampe lampa lámpara|round rund kulatý redondo|metal metall kov metal|left links vlevo izquierda
pillow kissen polštář almohada|handles griffe úchyty tiradores|armrests armlehnen područky reposabrazos
two zwei dva dos|knob knauf knoflík pomo|book buch kniha libro|doors türen dveře puertas
made gemacht vyrobený hecho|wooden hölzern dřevěný maderero|box kiste krabice caja|bowl schale mísa cuenco
stool hocker stolička taburete|vase vase váza jarrón|desk schreibtisch psací escritorio
bottle flasche láhev botella|clock uhr hodiny reloj|cushions polster podušky cojines
closed zu zavřený cerrado|armchair sessel křeslo sillón|three drei tři tres|open offen otevřený abierto
glass glas sklo vidrio|lampshade schirm stínítko pantalla|four vier čtyři cuatro|leather leder kůže cuero
square quadratisch čtvercový cuadrado|wardrobe kleiderschrank šatník ropero|closet wandschrank komora clóset
tall hoch vysoký alto|base sockel podstavec base|shelf regal police estante
shelves regalböden přihrádky estantes|cupboard schrank skříň armario|fabric stoff látka tela
nightstand nachttisch noční mesilla|mug becher hrnek taza|cabinet kommode skříňka gabinete
sofa sofa pohovka sofá|couch couch gauč diván|cup tasse šálek copa|floor boden podlaha suelo
bookshelf bücherregal knihovna librería|bookcase bücherschrank knihovnička biblioteca
marble marmor mramor mármol|short kurz krátký corto|wide breit široký ancho|narrow schmal úzký estrecho
flower blume květina flor|rectangular rechteckig obdélníkový rectangular|item ding věc cosa
object gegenstand předmět objeto|piece stück kus pieza|blanket decke deka manta|low niedrig nízký bajo
thick dick tlustý grueso|thin dünn tenký delgado|small klein malý pequeño|striped gestreift pruhovaný rayado
spotted gepunktet puntíkovaný moteado|oval oval oválný ovalado|under unter pod debajo|above über nad encima
between zwischen mezi entre
"""
TABLES: Final = {
    language: {
        entry.split()[0]: entry.split()[place] for entry in _TABLE.replace("\n", "|").split("|") if entry
    }
    for place, language in enumerate(LANGUAGES, 1)
}


def translate(text: str, language: str) -> str:
    """The words of a text in another language."""
    table = TABLES[language]
    return " ".join(table.get(word, word) for word in text.lower().replace(",", " ,").split())
