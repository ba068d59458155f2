"""Stop words of languages that Snowball has stems for, folded, and English plurals that no rule makes."""

from collections.abc import Mapping

STOP_WORDS: Mapping[str, str] = {
    "danish": """
    af alle at blev da de deres det den der dig din du efter eller en er et for fra ham han har havde
    hun hvad hvis hvor i ikke jeg kan man med meget men mig min nar noget nogle nu og om op os over pa
    sa sig sin skal som til ud under var ved vil vi
    """,
    "dutch": """
    aan al als bij dan dat de die dit door een en er had hebben heeft het hij hoe ik in is je kan maar
    meer met mij mijn na naar niet nog nu of om onder ook op over te tot uit van veel voor waren was
    wat we wel werd wie wij wordt ze zich zij zijn zo zou
    """,
    "english": """
    a about above after all also am an and any are as at be been before being below between both but
    by can could did do does for from had has have having he her here him his how i if in into is it
    its just me my no nor not of off on onto or other our out over own she should so some such than
    that the their them then there these they this those through to too under until up very was we
    were what when where which while who with would you your
    """,
    "finnish": """
    ei eivat ettei etta han hanen he ja johon joka jos jossa jotka kanssa koska kuin kun me mika mina
    minun mita mutta myos nama nyt ole oli olivat on ovat se sen siina sina siita tai tama taman tassa
    vain vaikka
    """,
    "french": """
    a au aux avec ce ces cet cette dans de des du elle elles en est et eu il ils je l la le les leur
    leurs lui ma mais me mes moi mon ne nos notre nous on ou par pas plus pour qu que qui sa sans se
    ses son sont sous sur ta te tes toi ton tres tu un une vos votre vous y d
    """,
    "german": """
    aber alle als am an auch auf aus bei bin bis das dass dem den der des die dies diese dieser du
    durch ein eine einem einen einer eines er es fur hat hatte ich ihr ihre im in ist ja kann kein
    keine mehr mein mit nach nicht noch nur oder sehr sein seine sich sie sind so uber um und uns
    unter vom von vor war was wenn wer wie wir wird wo zu zum zur
    """,
    "hungarian": """
    a az egy es hogy nem is ez azt meg van volt de ha csak mint mar vagy sem azok ezek aki ami amely
    benne alatt felett mellett utan kozott nagyon minden el ki be fel le
    """,
    "italian": """
    a ad ai al alla alle anche c che chi ci come con cui da dagli dai dal dalla de degli dei del della
    delle di dove e ed essa gli ha ho i il in io la le lei li lo loro lui ma mi mia mio ne nei nel
    nella noi non o per piu quale quella quello questa questo se si sono su sua sul sulla suo te ti
    tra tu tuo un una uno
    """,
    "norwegian": """
    alle at av ble da de den der deres det din du eller en er et etter for fra ha han hans har hun hva
    hvor i ikke jeg kan man med meg men min mot na noe noen og om opp oss over pa sa seg selv sin skal
    som til under ut var ved vi vil
    """,
    "portuguese": """
    a ao aos as ate com como da das de dela dele do dos e ela ele em entre era essa esse esta este eu
    foi ha isso ja lhe mais mas me meu minha muito na nao nas no nos num numa o os ou para pela pelo
    por quando que quem se sem seu so sua tem um uma voce
    """,
    "romanian": """
    a al ale am ar are au ca care cu cum da dar de din dupa ea ei el este eu fi foarte fost in intr
    intre la lui mai nu o pe pentru prin sa sau se si sunt sub un una unui unei
    """,
    "russian": """
    а без был была были было быть в вам вас весь во вот все вы где да для до его ее если есть еще же
    за и из или им их к как ко когда кто ли мне мы на над не него нет ни но ну о об он она они от
    очень по под при с со так то тот ты у уже что чтобы эта это этот я
    """,
    "spanish": """
    a al algo ante como con contra cual cuando de del desde donde el ella ellos en entre era es esa
    ese esta este esto fue ha hay la las le les lo los mas me mi mis muy nada ni no nos o os otra otro
    para pero poco por porque que quien se sea ser si sin sobre son su sus tambien te tiene tu un una
    uno y ya yo
    """,
    "swedish": """
    alla allt att av blev da de deras dem den denna det detta dig din du efter ej eller en er ett for
    fran har hade han hans hon hur i icke inte ja jag kan man med mellan men mig min mot mycket nagon
    nar ni nu och om oss over pa sa sig sin som till under upp ut utan vad var vi vid
    """,
    "turkish": """
    ama ancak bir bu cok da daha de degil diye en gibi hem her icin ile ise ki kadar mi mu ne o olan
    olarak sonra su uzerinde ve veya ya yok altinda
    """,
}

# folded words whose stems differ from those of their plural
IRREGULAR: Mapping[str, str] = {
    "calves": "calf",
    "children": "child",
    "dice": "die",
    "dwarves": "dwarf",
    "elves": "elf",
    "feet": "foot",
    "geese": "goose",
    "halves": "half",
    "hooves": "hoof",
    "knives": "knife",
    "leaves": "leaf",
    "lives": "life",
    "loaves": "loaf",
    "men": "man",
    "mice": "mouse",
    "oxen": "ox",
    "people": "person",
    "scarves": "scarf",
    "shelves": "shelf",
    "teeth": "tooth",
    "thieves": "thief",
    "wives": "wife",
    "wolves": "wolf",
    "women": "woman",
}
