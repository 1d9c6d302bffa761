"""The words of the demo corpus: English, German and French side by side, in tables.

"-" is an absent word, "_" a space within one. A letter is a kind of noun: person, animal, food, text, object, vessel,
location, surface, x (abstract). Kinds decide which words may be combined.
"""

from collections import namedtuple

Row = tuple  # a row of a table: a noun, a verb, an adjective, a preposition


def table(text: str) -> list[Row]:
    """Return the rows of a table as named tuples with the names in its first line."""
    header, *lines = text.strip().split("\n")
    row = namedtuple("Row", header.split())
    return [row(*("" if word == "-" else word.replace("_", " ") for word in line.split())) for line in lines]


def is_name(noun: Row) -> bool:
    """Return whether a noun is a proper name, which has no plural."""
    return not noun.en_plural


NOUNS = table("""
kind pronoun en        en_plural  de_gender de        de_genitive de_plural  fr_gender fr
p    she     Anna      -          f         Anna      Annas       -          f         Anna
p    he      Paul      -          m         Paul      Pauls       -          m         Paul
p    he      man       men        m         Mann      Mannes      Männer     m         homme
p    she     woman     women      f         Frau      Frau        Frauen     f         femme
p    he      boy       boys       m         Junge     Jungen      Jungen     m         garçon
p    he      king      kings      m         König     Königs      Könige     m         roi
p    she     queen     queens     f         Königin   Königin     Königinnen f         reine
p    she     aunt      aunts      f         Tante     Tante       Tanten     f         tante
a    it      dog       dogs       m         Hund      Hundes      Hunde      m         chien
a    it      cat       cats       f         Katze     Katze       Katzen     m         chat
a    it      horse     horses     n         Pferd     Pferdes     Pferde     m         cheval
a    it      cow       cows       f         Kuh       Kuh         Kühe       f         vache
a    it      bird      birds      m         Vogel     Vogels      Vögel      m         oiseau
a    it      mouse     mice       f         Maus      Maus        Mäuse      f         souris
a    it      bear      bears      m         Bär       Bären       Bären      m         ours
f    it      apple     apples     m         Apfel     Apfels      Äpfel      f         pomme
f    it      cake      cakes      m         Kuchen    Kuchens     Kuchen     m         gâteau
f    it      egg       eggs       n         Ei        Eis         Eier       m         œuf
t    it      book      books      n         Buch      Buches      Bücher     m         livre
t    it      letter    letters    m         Brief     Briefes     Briefe     f         lettre
t    it      newspaper newspapers f         Zeitung   Zeitung     Zeitungen  m         journal
o    it      key       keys       m         Schlüssel Schlüssels  Schlüssel  f         clé
o    it      hat       hats       m         Hut       Hutes       Hüte       m         chapeau
v    it      bottle    bottles    f         Flasche   Flasche     Flaschen   f         bouteille
v    it      lamp      lamps      f         Lampe     Lampe       Lampen     f         lampe
l    it      house     houses     n         Haus      Hauses      Häuser     f         maison
l    it      garden    gardens    m         Garten    Gartens     Gärten     m         jardin
l    it      school    schools    f         Schule    Schule      Schulen    f         école
l    it      church    churches   f         Kirche    Kirche      Kirchen    f         église
s    it      table     tables     m         Tisch     Tisches     Tische     f         table
s    it      bed       beds       n         Bett      Bettes      Betten     m         lit
x    it      task      tasks      f         Aufgabe   Aufgabe     Aufgaben   f         tâche
x    it      game      games      n         Spiel     Spiels      Spiele     m         jeu
x    it      question  questions  f         Frage     Frage       Fragen     f         question
""")

ADJECTIVES = table("""
kinds   en        de        fr        fr_feminine fr_side
paotvls old       alt       vieux     vieille     before
pa      young     jung      jeune     jeune       before
aftovls big       groß      grand     grande      before
aftovls small     klein     petit     petite      before
paotvls beautiful schön     beau      belle       before
ftx     good      gut       bon       bonne       before
pa      hungry    hungrig   affamé    affamée     after
pa      tired     müde      fatigué   fatiguée    after
p       happy     glücklich heureux   heureuse    after
ftovs   heavy     schwer    lourd     lourde      after
aftovls black     schwarz   noir      noire       after
aftovls red       rot       rouge     rouge       after
vl      empty     leer      vide      vide        after
x       difficult schwierig difficile difficile   after
x       important wichtig   important importante  after
""")

# Frames: do (an object or none), give (also a recipient), make (also an adjective), that (a clause), be (an adjective).
# `by` are the kinds of the subject, `of` those of the object.
VERBS = table("""
frame by        of       en     en_sg   en_prt en_prep prefix de        de_sg    de_prep case fr_sg       fr
be    paftovlsx -        are    is      -      -       -      sind      ist      -       -    est         sont
do    pa        -        sleep  sleeps  -      -       -      schlafen  schläft  -       -    dort        dorment
do    p         -        sing   sings   -      -       -      singen    singt    -       -    chante      chantent
do    p         -        laugh  laughs  -      -       -      lachen    lacht    -       -    rit         rient
do    pa        -        wake   wakes   up     -       auf    wachen    wacht    -       -    se_réveille se_réveillent
do    pa        -        arrive arrives -      -       an     kommen    kommt    -       -    arrive      arrivent
do    pa        paftovls see    sees    -      -       -      sehen     sieht    -       acc  voit        voient
do    pa        pa       hear   hears   -      -       -      hören     hört     -       acc  entend      entendent
do    p         pax      love   loves   -      -       -      lieben    liebt    -       acc  aime        aiment
do    p         plx      know   knows   -      -       -      kennen    kennt    -       acc  connaît     connaissent
do    pa        paftov   find   finds   -      -       -      finden    findet   -       acc  trouve      trouvent
do    pa        paftov   look   looks   -      for     -      suchen    sucht    -       acc  cherche     cherchent
do    a         a        chase  chases  -      -       -      jagen     jagt     -       acc  poursuit    poursuivent
do    pa        pa       follow follows -      -       -      folgen    folgt    -       dat  suit        suivent
do    p         pa       help   helps   -      -       -      helfen    hilft    -       dat  aide        aident
do    p         p        listen listens -      to      zu     hören     hört     -       dat  écoute      écoutent
do    p         pa       wait   waits   -      for     -      warten    wartet   auf     acc  attend      attendent
do    p         p        call   calls   up     -       an     rufen     ruft     -       acc  appelle     appellent
do    p         p        invite invites -      -       ein    laden     lädt     -       acc  invite      invitent
do    p         aftovs   buy    buys    -      -       -      kaufen    kauft    -       acc  achète      achètent
do    p         t        read   reads   -      -       -      lesen     liest    -       acc  lit         lisent
do    p         tox      forget forgets -      -       -      vergessen vergisst -       acc  oublie      oublient
do    p         f        eat    eats    -      -       -      essen     isst     -       acc  mange       mangent
do    a         f        eat    eats    -      -       -      fressen   frisst   -       acc  mange       mangent
do    p         f        eat    eats    up     -       auf    essen     isst     -       acc  dévore      dévorent
do    a         f        eat    eats    up     -       auf    fressen   frisst   -       acc  dévore      dévorent
do    p         ftov     pick   picks   up     -       auf    heben     hebt     -       acc  ramasse     ramassent
do    p         ftov     throw  throws  away   -       weg    werfen    wirft    -       acc  jette       jettent
give  p         aftov    give   gives   -      -       -      geben     gibt     -       acc  donne       donnent
give  p         tov      give   gives   back   -       zurück geben     gibt     -       acc  rend        rendent
give  p         aftovl   show   shows   -      -       -      zeigen    zeigt    -       acc  montre      montrent
make  px        x        make   makes   -      -       -      machen    macht    -       acc  rend        rendent
that  p         -        think  thinks  -      -       -      glauben   glaubt   -       -    croit       croient
that  p         -        know   knows   -      -       -      wissen    weiß     -       -    sait        savent
that  p         -        say    says    -      -       -      sagen     sagt     -       -    dit         disent
that  p         -        hope   hopes   -      -       -      hoffen    hofft    -       -    espère      espèrent
""")
BE = VERBS[0]

PREPOSITIONS = table("""
en     de     fr       kinds
in     in     dans     l
behind hinter derrière ls
near   bei    près_de  l
on     auf    sur      s
under  unter  sous     s
""")

DETERMINERS = table("""
en    de    fr_masculine fr_feminine fr_plural
the   -     le           la          les
a     ein   un           une         -
this  dies  ce           cette       ces
every jed   chaque       chaque      -
some  einig -            -           quelques
two   zwei  -            -           deux
's    -     le           la          les
own   -     son          sa          ses
their -     leur         leur        leurs
-     -     -            -           -
""")

PARTICLES = table("""
en      de      fr
and     und     et
but     ,_aber  ,_mais
because weil    parce_que
if      wenn    si
while   während pendant_que
that    dass    que
very    sehr    très
too     zu      trop
-       -       -
""")
GERMAN = {word.en: word.de for word in DETERMINERS + PARTICLES}
FRENCH = {word.en: word.fr for word in PARTICLES}
FRENCH_DETERMINERS = {word.en: word[2:] for word in DETERMINERS}
