set_name=math
show a=$HOME/c-$set_name/d b=q-$set_name/d c=$HOME/$set_name-$set_name/e$set_name.f
joined='{a:{},'\
'b:{},'\
'c}'
show "$joined" x='a,'\
'b'
