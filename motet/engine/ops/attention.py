"""Draft by the lead, to be replaced by the ops helper's."""
from dataclasses import dataclass
import torch
class KVPool:
    def __init__(self,layers,blocks,kv_heads,head_dim,dtype,device,block=16):
        self.block=block
        self.k=torch.zeros(layers,blocks*block,kv_heads,head_dim,dtype=dtype,device=device); self.v=torch.zeros_like(self.k)
    def write(self,layer,k,v,places):
        self.k[layer,places]=k; self.v[layer,places]=v
    def copy_block(self,s,d):
        b=self.block
        for t in (self.k,self.v): t[:,d*b:(d+1)*b]=t[:,s*b:(s+1)*b].clone()
@dataclass
class PagedRows:
    row_bounds:object; block_tables:object; first_positions:object
@dataclass
class PackedSequences:
    key_rows:object; key_bounds:object; query_counts:object; group_bounds:object
def _one(q,k,v,scale,first):
    # q n,H,E; k t,K,E: one row at a time, fixed padding, so that bits do not depend on neighbours
    n,H,E=q.shape; K=k.shape[1]; out=[]
    for i in range(n):
        t=first+i+1; pad=-(-t//64)*64
        kk=torch.zeros(pad,K,E); vv=torch.zeros(pad,K,E); kk=torch.cat([k[:t].float(),kk[t:]]); vv=torch.cat([v[:t].float(),vv[t:]])
        qq=q[i].float().view(K,H//K,E)
        s=torch.einsum('kge,tke->kgt',qq,kk)*scale
        m=torch.arange(pad)>=t
        p=torch.softmax(s.masked_fill(m,-torch.inf),-1)
        out.append(torch.einsum('kgt,tke->kge',p,vv).reshape(H,E))
    return torch.stack(out).to(q.dtype)
def paged_attention(q,pool,layer,rows,scale):
    out=[]
    for b in range(len(rows.first_positions)):
        s,e=int(rows.row_bounds[b]),int(rows.row_bounds[b+1]); f=int(rows.first_positions[b])
        pos=torch.arange(f+e-s); table=torch.as_tensor(rows.block_tables[b]).long()
        places=table[pos//16]*16+pos%16
        out.append(_one(q[s:e],pool.k[layer,places],pool.v[layer,places],scale,f))
    return torch.cat(out)
def packed_attention(q,k,v,packed,scale):
    out=torch.zeros_like(q); parts=[]; rows=[]
    for s in range(len(packed.query_counts)):
        kr=torch.as_tensor(packed.key_rows[packed.key_bounds[s]:packed.key_bounds[s+1]]).long(); n=int(packed.query_counts[s])
        parts.append(_one(q[kr[-n:]],k[kr],v[kr],scale,len(kr)-n)); rows.append(kr[-n:])
    rows=torch.cat(rows); parts=torch.cat(parts)
    return torch.zeros_like(q).index_copy(0,rows,parts)
